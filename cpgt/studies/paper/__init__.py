"""The paper's experiments, made again: each module computes one figure or table, and draws and checks it."""
