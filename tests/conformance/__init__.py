"""What must hold over every implementation of a port."""
