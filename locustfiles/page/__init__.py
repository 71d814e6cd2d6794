"""The Locust page: its forms, its tabs, its load shape."""
