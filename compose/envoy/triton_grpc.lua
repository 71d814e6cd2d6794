-- gRPC's C++ library answers INTERNAL, "the server is broken", to bytes that are no message, before Triton sees the call. It becomes
-- INVALID_ARGUMENT. Only headers are looked at: an answer with a message passes unread.
function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get("grpc-status") == "13" and headers:get("grpc-message") == "Unable to parse request" then
    headers:replace("grpc-status", "3")
    headers:replace("grpc-message", "the bytes are no message of this method: generate the client from KServe's inference proto")
  end
end
