-- Two corrections for Triton's HTTP server (24.10). Binary tensors pass untouched and unread.

-- 1. JSON nested 100,000 levels deep, 200 KB of it, overflows the parser's stack and ends the server: refused here. A tensor as JSON is
-- nested as deep as it has dimensions. A request with binary tensors says how long its JSON part is; the rest is not JSON.
local DEEPEST, LONGEST = 64, 65536

local function too_deep(json)
  local depth = 0
  for bracket in string.gmatch(json, "[%[%]{}]") do
    if bracket == "[" or bracket == "{" then
      depth = depth + 1
      if depth > DEEPEST then
        return true
      end
    else
      depth = depth - 1
    end
  end
  return false
end

local function refuse(handle, message)
  handle:headers():replace("x-refused", "yes") -- the local reply then takes this text and not that of a malformed request
  handle:respond({ [":status"] = "400" }, message)
end

function envoy_on_request(handle)
  local length = handle:headers():get("inference-header-content-length")
  if length then
    if (tonumber(length) or 0) > LONGEST then
      refuse(handle, "the JSON part in front of the binary tensors is longer than " .. LONGEST .. " bytes: send tensor data as binary")
    end
    return
  end
  local body = handle:body()
  if body and too_deep(body:getBytes(0, body:length())) then
    refuse(handle, "the JSON is nested deeper than " .. DEEPEST .. " levels: send a KServe v2 inference request")
  end
end

-- 2. Triton answers 500 to a body that is not JSON, or not the JSON that it expects, although the fault is the
-- client's. Such an answer becomes 400 with Triton's own text. Every other answer passes.

-- How those texts begin: no syntax; a field that is missing or of the wrong type.
local REFUSALS = { "failed to parse the request JSON buffer", "Unable to parse '" }

function envoy_on_response(handle)
  if handle:headers():get(":status") ~= "500" then
    return
  end
  local body = handle:body()
  local text = body and body:getBytes(0, body:length()) or ""
  for _, refusal in ipairs(REFUSALS) do
    if string.find(text, '"error":"' .. refusal, 1, true) then
      handle:headers():replace(":status", "400")
    end
  end
end
