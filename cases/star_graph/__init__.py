"""The star-graph circuit of arXiv 2604.11912: a two-layer disentangled transformer that finds a path from its end.

Ten tokens name the four directed edges of a graph with two paths of three nodes, then the end node and the start.
Multi-token prediction is said to build a circuit that looks up the end node, then the node before it. This case proves for
which weights that circuit is right, in all 725,760 instances, and tests what is published about its losses and gradients.

`instances` has the tokens, `layer` the array code, `oracle` the model as it is defined, in balls. `circuit` and
`circuit_claims` are about the circuit at every gamma, `exact` and `exact_claims` about what is rational, `flow` and
`flow_claims` about Phase I, `stored` about the weights of a state, `decoded` about what a format decodes. `audit` and
`train` are commands. The checker's part is in `checker/`, and all proofs in README.md.
"""
