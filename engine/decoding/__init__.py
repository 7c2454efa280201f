"""Chooses tokens: processors, the sampler and the decode loop."""
