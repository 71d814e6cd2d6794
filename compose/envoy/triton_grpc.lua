-- 1. Triton's gRPC server takes a message of any size into its memory. Here 32 MiB are the limit, as everywhere. Each message says its
-- length first, so most chunks pass unread. One that is too long is told to the server as one of 4 GiB, which gRPC refuses at once,
-- and nothing more of the call is sent on.
local LARGEST, PREFIX = 32 * 1024 * 1024, 5
local UNBOUNDED = "\0\255\255\255\255"

function envoy_on_request(handle)
  local prefix, left = "", 0 -- what has come of a message's prefix, and how many bytes of the message are still to come
  local refused = false
  for chunk in handle:bodyChunks() do
    local length, at = chunk:length(), 0
    if refused then
      chunk:setBytes("")
      length = 0
    end
    while at < length do
      if left > 0 then
        local passed = math.min(left, length - at)
        left, at = left - passed, at + passed
      else
        local came = math.min(PREFIX - #prefix, length - at)
        prefix, at = prefix .. chunk:getBytes(at, came), at + came
        if #prefix == PREFIX then
          local _, a, b, c, d = string.byte(prefix, 1, PREFIX)
          left = ((a * 256 + b) * 256 + c) * 256 + d
          prefix = ""
          if left > LARGEST then
            refused = true
            handle:streamInfo():dynamicMetadata():set("triton-grpc", "refused", "yes") -- for the answer, below
            local whole = at >= PREFIX -- else its first bytes are with the server already, which then waits for the rest in vain
            chunk:setBytes(whole and chunk:getBytes(0, at - PREFIX) .. UNBOUNDED or "")
            break
          end
        end
      end
    end
  end
end

-- 2. gRPC's C++ library answers malformed bytes with INTERNAL ("the server is broken"), before Triton sees the call. Here
-- that becomes INVALID_ARGUMENT, and its refusal of a message of 4 GiB gets our words. Only headers are read: an answer with a message
-- passes unread.
function envoy_on_response(handle)
  local headers = handle:headers()
  local status = headers:get("grpc-status")
  if not status then
    return
  end
  if handle:streamInfo():dynamicMetadata():get("triton-grpc") then
    headers:replace("grpc-status", "8")
    headers:replace("grpc-message", "Payload Too Large: 32 MiB per request at most, send fewer or smaller images")
  elseif status == "13" and headers:get("grpc-message") == "Unable to parse request" then
    headers:replace("grpc-status", "3")
    headers:replace("grpc-message", "the bytes are not a message of this method: generate the client from KServe's inference proto")
  elseif status == "13" and string.find(headers:get("grpc-message") or "", "Stub process", 1, true) then
    headers:replace("grpc-status", "14") -- a model whose process has died is loaded again within seconds
    headers:replace("grpc-retry-pushback-ms", "1000")
  end
end
