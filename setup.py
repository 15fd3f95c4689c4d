"""What pyproject.toml has no words for: a part in C, which is left out where it cannot be compiled."""

from setuptools import Extension, setup

# contraction would round otherwise than numpy does
part = Extension(
    "cpgt.agent._round",
    ["cpgt/agent/_round.c"],
    extra_compile_args=["-ffp-contract=off"],
    optional=True,
)
setup(ext_modules=[part])
