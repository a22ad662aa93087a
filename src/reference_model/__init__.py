"""The model that the engine runs: layers of what a platform picks, the weights in them, and what a step looks up."""
