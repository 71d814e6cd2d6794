"""What a gateway calls to have photos answered: a model in this process (torch), TorchServe, Triton.

Each has `predict`: one Prediction per JPEG, in order, and its time in `stages`. `timeout` is in seconds; None waits as
long as the upstream's own limit. Cancelling the call drops its work. It raises ServeError, whose message names an image
as images[i]. `max_top_k` is the most classes that an upstream answers (None: all), and `answered` how many requests it
has answered so far, whoever asked (0 where it never says, NaN where it does not now).
"""
