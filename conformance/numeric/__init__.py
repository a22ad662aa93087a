"""What numeric checks are made of: small problems, plain references in float64, and what drives a component."""
