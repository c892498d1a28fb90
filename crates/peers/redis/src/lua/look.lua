-- Where a stream stands, and a part of its history.
-- The third value of the answer: 0 as asked, 1 something is missing, 2 no such position.
local meta, stream = KEYS[1], KEYS[2]
local server, fresh, now, keep = ARGV[1], ARGV[2], clock(tonumber(ARGV[3])), tonumber(ARGV[4])
local ttl, mode, limit, bytes = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local epoch, offset, start, empty = ARGV[9], tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])

local e, s, past = open(meta, stream, server, fresh, now, keep, empty)
local answer = {e, int(s), 0}
if mode == 'top' then
  return answer
end
-- Whether what follows the position is what follows it in this epoch.
local known = epoch == '' or epoch == start or epoch == e or continues(past, epoch, offset)
trim(stream, now, ttl)

local function add(entries, most)
  local sum = 0
  for n, entry in ipairs(entries) do
    sum = sum + #entry[2][4] + 128
    if n > most or (n > 1 and sum > bytes) then
      return false
    end
    answer[#answer + 1] = {entry[1], entry[2][2], entry[2][4]}
  end
  return true
end

if mode == 'since' then
  local missed = s - offset
  if not known or missed < 0 or missed > limit then
    return {e, int(s), 1}
  end
  if missed > 0 then
    local from = int(offset + 1) .. '-0'
    local entries = redis.call('XRANGE', stream, from, '+', 'COUNT', int(missed))
    if #entries ~= missed or not add(entries, missed) then
      return {e, int(s), 1}
    end
  end
  return answer
end

if not known or (epoch ~= '' and offset > s + 1) then
  return {e, int(s), 2}
end
if limit > 0 then
  local entries
  if mode == 'newest' then
    local to = '+'
    if epoch ~= '' then
      to = '(' .. int(offset) .. '-0'
    end
    if to ~= '(0-0' then
      entries = redis.call('XREVRANGE', stream, to, '-', 'COUNT', int(limit))
    end
  else
    local from = '-'
    if epoch ~= '' then
      from = int(offset + 1) .. '-0'
    end
    entries = redis.call('XRANGE', stream, from, '+', 'COUNT', int(limit))
  end
  add(entries or {}, limit)
end
return answer
