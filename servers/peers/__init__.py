"""Other projects' servers around the JPEG server's model and its code for photos (study `peers`).

Each serves what the JPEG server serves at /embed/base64: {"images": ["<base64 JPEG>"]} in, {"embeddings": [[...]]} out.
BentoML answers with the bare list. MLServer has its own protocol: a tensor of texts in, a tensor out.
A file has one of them, configured as its own documentation recommends for throughput, with COMPUTE_THREADS threads in
all. They do not follow a swap, and refuse bad photos in their own words.
"""

PORT = 8000
PATH = "/embed/base64"
MODEL = "peer"
"""Its name where a server speaks the Open Inference Protocol v2."""
KSERVE_PATH = f"/v2/models/{MODEL}/infer"
