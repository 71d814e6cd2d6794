"""The upstreams that a gateway calls: a model in this process (torch), TorchServe, Triton.

Each has `predict`: one Prediction per JPEG, in order, and its time in `stages`. `timeout` is in seconds; None waits as
long as the upstream's own limit. Cancelling the call drops its work. It raises ServeError, whose message names an image
as images[i]. `max_top_k` is the most classes that an upstream answers (None: all). `answered` is the number of requests
that it has answered so far, for any client: 0 if it has no such counter, NaN if the counter cannot be read now.
"""
