"""Benchmarks that pair fulmar with a peer: same run, same cores, round by round."""
