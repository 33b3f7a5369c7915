"""The whole chain: `adapt` and `add_classes`."""
