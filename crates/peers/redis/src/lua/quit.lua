-- Somebody has left. Who was there in another incarnation of the node has come again since.
local members, users, channel = KEYS[1], KEYS[2], KEYS[3]
local client, incarnation, announced, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local row = redis.call('HGET', members, client)
if row and string.sub(row, 1, 16) == incarnation then
  local user = string.sub(row, 26, 25 + tonumber(string.sub(row, 18, 25)))
  redis.call('HDEL', members, client)
  if redis.call('HINCRBY', users, user, -1) <= 0 then
    redis.call('HDEL', users, user)
  end
elseif row then
  return 0
end
if announced == '1' then
  redis.call(publish, channel, 'l   0 ' .. body)
end
return 1
