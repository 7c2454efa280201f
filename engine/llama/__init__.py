"""The only place that touches llama.cpp, through ctypes and with guards."""
