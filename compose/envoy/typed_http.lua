-- The transcoder writes a gRPC error as {"code": 3, "message": ...}: here it gets the form of the other routes, and the trailing
-- metadata `server-timing`, which HTTP/1.1 clients never see, becomes the header that they read.

local NAMES = {
  [0] = "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
  "UNAUTHENTICATED",
}

function envoy_on_response(handle)
  local body = handle:body()
  local trailers = handle:trailers()
  local headers = handle:headers() -- asked for last: what was asked for before a wait cannot be used after it
  local timing = trailers and trailers:get("server-timing")
  if timing then
    headers:replace("server-timing", timing)
  end
  if body and headers:get(":status") ~= "200" then
    local code, message = string.match(body:getBytes(0, body:length()), '^{"code":(%d+),"message":(".-"),"details":%[.*%]}%s*$')
    if code then
      -- gRPC has one status for too large and for too many; in HTTP the first is 413, as 429 would say: send it again.
      if code == "8" and string.find(message, " MiB: send ", 1, true) then
        headers:replace(":status", "413")
      end
      local length = body:setBytes('{"error":{"code":"' .. (NAMES[tonumber(code)] or "UNKNOWN") .. '","message":' .. message .. "}}")
      headers:replace("content-length", tostring(length))
    end
  end
end
