"""Softmax attention as normalised gradient descent: the equality, its rounding, its margins and its training, certified.

A layer of softmax attention with one head, in the right parameters, is one step of gradient descent on the exponential loss
of the labelled examples in its context, divided by that loss. So a deep one is many steps, whose direction tends to the
max-margin separator. Source: "Transformers Efficiently Perform In-Context Logistic Regression via Normalized Gradient Descent".

`layer` is the kernel, `symbols` and `balls` are its two oracles, `state` is what a state file holds, `corpus` makes some.
"""
