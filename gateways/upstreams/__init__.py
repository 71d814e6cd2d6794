"""What a gateway calls: each module is one Predictor (gateways.core.predict), in this process or behind a network."""
