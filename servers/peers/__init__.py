"""Other projects' servers around the JPEG server's model and its code for photos (study `peers`).

Each serves what the JPEG server serves at /embed/base64: {"images": ["<base64 JPEG>"]} in, {"embeddings": [[...]]} out.
A file has one of them, configured as its own documentation recommends for throughput, with COMPUTE_THREADS threads in
all. They do not follow a swap, and refuse bad photos in their own words.
"""

PORT = 8000
PATH = "/embed/base64"
