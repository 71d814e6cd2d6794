-- Two corrections for Triton's HTTP server (24.10). Binary tensors pass untouched and unread.

-- 1. JSON nested 100,000 levels deep, 200 KB of it, overflows the parser's stack and ends the server: refused here. A tensor as JSON is
-- nested as deep as it has dimensions. A request with binary tensors says how long its JSON part is; the rest is not JSON.
--
-- The scan holds up every connection of this worker, so it is bounded: by the body's bytes, which are searched for brackets by the C
-- library, and by the brackets. A tensor of 32 images as nested lists has 43,000.
local DEEPEST, LONGEST, LARGEST, MOST = 64, 65536, 8 * 1024 * 1024, 65536
local BRACKETS = { ["["] = 1, ["{"] = 1, ["]"] = -1, ["}"] = -1 }

-- Why this JSON is refused, or nil.
local function refusal(json)
  local found, depth = {}, 0
  for bracket in pairs(BRACKETS) do
    found[bracket] = string.find(json, bracket, 1, true)
  end
  for _ = 1, MOST do
    local first, at = nil, nil
    for bracket, position in pairs(found) do
      if not at or position < at then
        first, at = bracket, position
      end
    end
    if not first then
      return nil
    end
    depth = depth + BRACKETS[first]
    if depth > DEEPEST then
      return "the JSON is nested deeper than " .. DEEPEST .. " levels: send a KServe v2 inference request"
    end
    found[first] = string.find(json, first, at + 1, true)
  end
  return "the JSON has more than " .. MOST .. " brackets: send each tensor's data as one flat list, or as binary"
end

local function refuse(handle, status, message)
  handle:headers():replace("x-refused", "yes") -- the local reply then takes this text and not that of a malformed request
  handle:respond({ [":status"] = status }, message)
end

function envoy_on_request(handle)
  local length = handle:headers():get("inference-header-content-length")
  if length then
    if not string.find(length, "^%d+$") then
      refuse(handle, "400", "inference-header-content-length is not a number: send the bytes of the JSON part")
    elseif tonumber(length) > LONGEST then
      refuse(handle, "400", "the JSON part in front of the binary tensors is longer than " .. LONGEST .. " bytes: send tensor data as binary")
    end
    return
  end
  local body = handle:body()
  if body and body:length() > LARGEST then
    refuse(handle, "413", "Payload Too Large")
    return
  end
  local why = body and refusal(body:getBytes(0, body:length()))
  if why then
    refuse(handle, "400", why)
  end
end

-- 2. Triton answers 500 to a body that is not JSON, or not the JSON that it expects, although the fault is the
-- client's. Such an answer becomes 400 with Triton's own text. A model whose process has died is loaded again within seconds: 503.
-- Every other answer passes.

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
  if string.find(text, "Stub process", 1, true) then
    handle:headers():replace(":status", "503")
    handle:headers():replace("retry-after", "1")
  end
end
