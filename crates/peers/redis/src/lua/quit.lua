-- Somebody has left. Who was there in another incarnation of the node has come again since.
local members, users, told, channel, places = unpack(KEYS)
local client, incarnation, announced, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local is_last, name = ARGV[5] == '1', ARGV[6]
local row = redis.call('HGET', members, client)
local is_last_of_user = false
local is_own = row and string.sub(row, 1, 16) == incarnation
if is_own then
  local user = string.sub(row, 26, 25 + tonumber(string.sub(row, 18, 25)))
  redis.call('HDEL', members, client)
  if redis.call('HINCRBY', users, user, -1) <= 0 then
    redis.call('HDEL', users, user)
    is_last_of_user = redis.call('HDEL', told, user) == 1
  end
end
-- The node knows of nobody else. Rows may be left of which it does not: those that Redis refused to
-- remove, or of clients that another process has taken. They are swept with the channels that are
-- kept here. Where many are left it is kept, too, since looking at all of them takes long.
local function is_left()
  if redis.call('HLEN', members) > 100 then
    return true
  end
  for _, other in ipairs(redis.call('HVALS', members)) do
    if string.sub(other, 1, 16) == incarnation then
      return true
    end
  end
  return false
end
if is_last and not is_left() then
  redis.call('SREM', places, name)
end
if row and not is_own then
  return 0
end
if announced == '1' or announced == '2' and is_last_of_user then
  redis.call(publish, channel, 'l   0 ' .. body)
end
return 1
