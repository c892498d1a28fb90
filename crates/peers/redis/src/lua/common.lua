-- Time in milliseconds by the clock of Redis, which is the only one that counts; but for tests,
-- which give their own.
local function clock(given)
  if given > 0 then
    return given
  end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function int(n)
  return string.format('%.0f', n)
end

-- Who writes: this server process, and its line of replication, which is another one after each
-- promotion. Nodes say it with each call; if one of them does not know yet, Redis itself does.
local function writer()
  local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local line = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
  return process .. ':' .. line
end

-- How many epochs a stream remembers besides its own.
local ancestors = 8

-- Where a stream stands: its epoch, its newest offset, and its past: the epochs before, the newest
-- first, each with the offset up to which it has the same publications: 'EPOCH:OFFSET EPOCH:OFFSET '.
-- The newest one is in pe and pb, the others in a.
-- The writer is in g. Another one may have started from an older copy of the data, so what comes now
-- gets another epoch: no offset is used twice in one.
-- A stream without publications lives for `empty` from now on: as long as any, if somebody
-- publishes or subscribes, or for a moment, if somebody looks.
local function open(meta, stream, server, fresh, now, keep, empty)
  local m = redis.call('HMGET', meta, 'e', 's', 'g', 'pe', 'pb', 't', 'a')
  if not m[1] or now - m[6] >= keep then
    -- First, since a full Redis refuses this and not the next.
    redis.call('HSET', meta, 't', int(now))
    redis.call('DEL', meta, stream)
    redis.call('HSET', meta, 'e', fresh, 's', 0, 'g', server, 't', int(now - keep + empty))
    redis.call('PEXPIRE', meta, int(empty))
    return fresh, 0, ''
  end
  local e, s, past = m[1], tonumber(m[2]), m[7] or ''
  if m[4] then
    past = m[4] .. ':' .. m[5] .. ' ' .. past
  end
  if m[3] ~= server then
    server = writer()
  end
  if m[3] ~= server then
    local older, n = '', 1
    for one in string.gmatch(past, '%x+:%d+ ') do
      n = n + 1
      if n <= ancestors then
        older = older .. one
      end
    end
    redis.call('HSET', meta, 'e', fresh, 'g', server, 'pe', e, 'pb', int(s), 'a', older)
    e, past = fresh, e .. ':' .. int(s) .. ' ' .. older
  end
  if now - m[6] > keep / 16 and (s > 0 or empty == keep) then
    redis.call('HSET', meta, 't', int(now))
    redis.call('PEXPIRE', meta, int(keep))
  end
  return e, s, past
end

-- Whether what follows an offset of an epoch before is what follows it now.
local function continues(past, epoch, offset)
  for e, last in string.gmatch(past, '(%x+):(%d+) ') do
    if e == epoch then
      return offset <= tonumber(last)
    end
  end
  return false
end

-- Forgets what is too old. Entries are in the order of their times.
local function trim(stream, now, ttl)
  while true do
    local oldest = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
    if not oldest or now - oldest[2][2] < ttl then
      return
    end
    redis.call('XDEL', stream, oldest[1])
  end
end
