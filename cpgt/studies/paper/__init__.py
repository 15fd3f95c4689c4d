"""The paper's experiments. Each module computes, draws and checks one figure or table."""
