-- wrk as a closed loop over ready requests: wrk -t1 -cUSERS -dSECONDS -s wrk.lua URL FILE...
-- Each file is one whole HTTP/1.1 request, head and body, byte for byte as it is to be sent. The connections send them in turn.
-- The last line on stdout is JSON: {"requests", "runtime_us", "errors": {...}, "latencies_us": [[us, count], ...]}.
-- The latencies are as wrk has them, its correction included (bench/truth.py takes it out).

local requests = {}
local turn = 0

function init(args)
  for i = 1, #args do
    local file = assert(io.open(args[i], "rb"))
    requests[i] = file:read("*a")
    file:close()
  end
  assert(#requests > 0, "wrk.lua: name one file or more whose bytes are the requests")
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local steps = {}
  for i = 1, #latency do
    steps[i] = string.format("[%d,%d]", latency(i))
  end
  local errors = {}
  for _, kind in ipairs({"connect", "read", "write", "timeout", "status"}) do
    errors[#errors + 1] = string.format('"%s":%d', kind, summary.errors[kind])
  end
  print(string.format('{"requests":%d,"runtime_us":%d,"errors":{%s},"latencies_us":[%s]}',
    summary.requests, summary.duration, table.concat(errors, ","), table.concat(steps, ",")))
end
