"""The serving side of fiveway: one folder per wire protocol, a core without transport, and the backends they call."""
