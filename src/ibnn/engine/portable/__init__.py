"""The portable engine: plain torch ops, on any device."""
