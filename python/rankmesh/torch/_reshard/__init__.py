"""Moves the tensors of a state dict from one mesh to another in a running job."""
