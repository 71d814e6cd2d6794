-- TorchServe's gRPC answers OK when its handler refuses a request: the error is JSON in the answer's one field. Its
-- other errors are INTERNAL or UNKNOWN, whatever the cause. Here each gets the status that its cause has on every other
-- route.

local OK, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = "0", "2", "3", "4", "5"
local RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = "8", "12", "13", "14"

local BY_HTTP = {
  [404] = NOT_FOUND, [405] = UNIMPLEMENTED, [408] = DEADLINE_EXCEEDED, [413] = RESOURCE_EXHAUSTED, [429] = RESOURCE_EXHAUSTED,
  [501] = UNIMPLEMENTED, [503] = UNAVAILABLE, [504] = DEADLINE_EXCEEDED, [507] = UNAVAILABLE, -- 507: the worker died
}

local function of_http(code)
  return BY_HTTP[code] or (code >= 500 and INTERNAL) or INVALID_ARGUMENT
end

-- The message of an error JSON, {"code": 4xx or 5xx, "type": ..., "message": ...}, and its status; nil for a real answer.
-- Real answers start with another key, so a few bytes tell the two apart.
local function refusal(body)
  local length = body:length()
  if length < 8 or length > 65536 or not string.find(body:getBytes(0, math.min(length, 64)), '{%s*"code":') then
    return nil
  end
  local json = body:getBytes(0, length)
  local code = tonumber(string.match(json, '{%s*"code":%s*(%d%d%d)%s*,'))
  if not code or code < 400 then
    return nil
  end
  local message = string.match(json, '"message":%s*"(.*)"') or "refused by TorchServe"
  return of_http(code), (string.gsub(message, '\\(.)', { n = " ", t = " ", r = "", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }))
end

-- gRPC sends messages percent-encoded.
local function encoded(message)
  return (string.gsub(message, "[^\32-\36\38-\126]", function(c) return string.format("%%%02X", string.byte(c)) end))
end

-- What TorchServe's Java code says in a message whose status is INTERNAL or UNKNOWN, and the status it should have.
local BY_TEXT = {
  { "BadRequestException", INVALID_ARGUMENT },
  { "not found", NOT_FOUND },
  { "NotFoundException", NOT_FOUND },
  { "no worker", UNAVAILABLE },
  { "orker died", UNAVAILABLE },
}

local function mended(status, message)
  if status ~= INTERNAL and status ~= UNKNOWN then
    return nil
  end
  for _, rule in ipairs(BY_TEXT) do
    if string.find(message, rule[1], 1, true) then
      return rule[2], (string.gsub(message, "%%0A.*", "")) -- the lines after the first name Java classes
    end
  end
  if status == UNKNOWN and message == "" then -- bytes that its protobuf code cannot parse
    return INVALID_ARGUMENT, "not a PredictionsRequest: generate the client from TorchServe's inference.proto"
  end
  return INTERNAL, message
end

local function mend(map)
  local status, message = mended(map:get("grpc-status"), map:get("grpc-message") or "")
  if status then
    map:replace("grpc-status", status)
    map:replace("grpc-message", message)
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get("grpc-status") then -- an error without an answer is one block of headers
    mend(headers)
    return
  end
  local body = handle:body()
  local trailers = handle:trailers()
  if not trailers then
    return
  end
  if trailers:get("grpc-status") ~= OK then
    mend(trailers)
    return
  end
  local status, message = nil, nil
  if body then
    status, message = refusal(body)
  end
  if status then
    body:setBytes("")
    trailers:replace("grpc-status", status)
    trailers:replace("grpc-message", encoded(message))
  end
end
