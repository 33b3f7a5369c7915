"""Microcontroller boards: what an adaptation would cost there."""
