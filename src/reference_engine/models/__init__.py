"""The models that the engine runs: layers of what a platform picks, and the weights in them."""
