-- gRPC's C++ library answers malformed bytes with INTERNAL ("the server is broken"), before Triton sees the call. Here
-- that becomes INVALID_ARGUMENT. Only headers are read: an answer with a message passes unread.
function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get("grpc-status") == "13" and headers:get("grpc-message") == "Unable to parse request" then
    headers:replace("grpc-status", "3")
    headers:replace("grpc-message", "the bytes are not a message of this method: generate the client from KServe's inference proto")
  end
end
