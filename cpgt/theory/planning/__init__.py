"""`cpgt plan`: the forecast of a run."""
