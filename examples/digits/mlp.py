"""A network with one hidden layer: 64 pixels, `hidden` units, 10 classes."""

import jax
import jax.numpy as jnp

from cpgt.adapters import jax_objective


def initial(hidden):
    """The same for all agents: x = 0 is this point."""
    weights = jax.random.normal(jax.random.key(0), (64, hidden)) / 8
    return weights, jnp.zeros(hidden), jnp.zeros((hidden, 10)), jnp.zeros(10)


def scores(parameters, pixels):
    weights, offset, weights_out, offset_out = parameters
    return jnp.tanh(pixels @ weights + offset) @ weights_out + offset_out


def loss(parameters, pixels, label):
    found = scores(parameters, pixels)
    return jax.nn.logsumexp(found) - found[label.astype(int)]


def make(data, hidden, scale, l2=0.0):
    return jax_objective(loss, initial(hidden), data, scale=scale, l2=l2)
