-- One publication: its offset, its place in history, its idempotency key and its delivery. Redis
-- refuses a script's first write or none of them, so a key is written before anything is sent.
local meta, stream, result, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local server, fresh, now, keep = ARGV[1], ARGV[2], clock(tonumber(ARGV[3])), tonumber(ARGV[4])
local size, ttl, skip = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local remember, version, versions, body = tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11]

if remember > 0 then
  local r = redis.call('HMGET', result, 't', 'e', 's')
  if r[1] and now - r[1] < remember then
    return {r[2], r[3]}
  end
end
local e, s = '', ''
if size > 0 and (version ~= '' or not skip) then
  local epoch, top = open(meta, stream, server, fresh, now, keep, keep)
  if version ~= '' then
    local v = redis.call('HMGET', meta, 'v', 've')
    if v[1] and (versions == '' or versions == v[2]) and version <= v[1] then
      return {epoch, int(top)}
    end
    redis.call('HSET', meta, 'v', version, 've', versions)
  end
  if not skip then
    trim(stream, now, ttl)
    e, s = epoch, int(redis.call('HINCRBY', meta, 's', 1))
    redis.call('XADD', stream, 'MAXLEN', size, s .. '-0', 't', int(now), 'b', body)
    redis.call('PEXPIRE', stream, int(ttl))
  end
end
if remember > 0 then
  redis.call('HSET', result, 't', int(now), 'e', e, 's', s)
  redis.call('PEXPIRE', result, int(remember))
end
-- The trace comes right before its publication, which does not depend on it.
if KEYS[5] then
  redis.pcall(publish, KEYS[5], ARGV[12] .. ' ' .. channel)
end
redis.call(publish, channel, 'p ' .. e .. ' ' .. s .. ' ' .. int(now) .. ' ' .. body)
return {e, s}
