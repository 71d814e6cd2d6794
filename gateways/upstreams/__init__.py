"""What a gateway calls to have photos answered: a model in this process (torch), TorchServe, Triton."""
