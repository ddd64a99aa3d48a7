"""Model: the nouns, frozen.

Owns: definitions, manifest, bundle, envelopes of the module ABI, identities, records, limits.
May import: `values`, `errors`.
Refuses: to decide anything; what happens to these nouns is the business of `kernel`.
"""
