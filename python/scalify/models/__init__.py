"""Models in plain JAX, as pytrees of parameters and functions of them."""
