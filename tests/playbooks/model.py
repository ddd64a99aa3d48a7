"""The net once more: the model that the simulator judges playbooks by."""

from tallystick.testing.reference_net import Model, Net, Step

__all__ = ["Model", "Net", "Step"]
