"""The compiled CPU engine: C++ behind a plain C interface, called through ctypes."""
