-- wrk as a closed loop over ready requests: wrk -t1 -cUSERS -dSECONDS -s wrk.lua URL FILE...
-- Each file is one whole HTTP/1.1 request, head and body, byte for byte as it is to be sent. The connections send them in turn.
-- The last line on stdout is JSON: {"requests", "failures", "errors": {...}, "seconds", "latencies_us": [[us, count], ...]}.
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
  local errors, failures = {}, 0
  for _, kind in ipairs({"connect", "read", "write", "timeout", "status"}) do
    local count = summary.errors[kind]
    if count > 0 then
      errors[#errors + 1] = string.format('"%s":%d', kind, count)
      failures = failures + count
    end
  end
  print(string.format('{"requests":%d,"failures":%d,"errors":{%s},"seconds":%.6f,"latencies_us":[%s]}',
    summary.requests, failures, table.concat(errors, ","), summary.duration / 1e6, table.concat(steps, ",")))
end
