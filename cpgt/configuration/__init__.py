"""The network file: schema, loading, and the synthetic data a network may name."""
