"""The version, in the one place that packaging, the library and the command line read it from."""

__version__ = "0.2.0"
