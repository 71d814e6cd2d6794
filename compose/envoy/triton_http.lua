-- Triton answers 500 to a body that is not JSON, or not the JSON it expects, and the client reads "the server is broken" where "your
-- request is" is meant. Such an answer becomes 400 with Triton's own text. Every other answer passes untouched and unread.

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
