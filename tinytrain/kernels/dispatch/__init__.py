"""Fast calls of machine code with arguments that are bound once."""
