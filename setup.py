"""The part in C, which pyproject.toml cannot describe. Without a compiler it is left out."""

from setuptools import Extension, setup

# without -ffp-contract=off the compiler fuses a*b+c, which rounds differently from numpy
part = Extension(
    "cpgt.agent._round",
    ["cpgt/agent/_round.c"],
    extra_compile_args=["-ffp-contract=off"],
    optional=True,
)
setup(ext_modules=[part])
