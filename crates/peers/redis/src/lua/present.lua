-- Who is present. Rows of nodes that have died wait to be swept, and are left out of the list.
local members, users = KEYS[1], KEYS[2]
local most, lease = tonumber(ARGV[1]), ARGV[2]
local clients = redis.call('HLEN', members)
if most < 0 then
  return {clients, redis.call('HLEN', users)}
end
if clients > most then
  return {-1, 0}
end
local rows, alive, seen, count = {}, {}, {}, 0
for n, row in ipairs(redis.call('HVALS', members)) do
  local incarnation = string.sub(row, 1, 16)
  if alive[incarnation] == nil then
    alive[incarnation] = redis.call('EXISTS', lease .. incarnation) == 1
  end
  if alive[incarnation] then
    local length = tonumber(string.sub(row, 18, 25))
    local user = string.sub(row, 26, 25 + length)
    if not seen[user] then
      seen[user] = true
      count = count + 1
    end
    rows[#rows + 1] = string.sub(row, 26 + length)
  end
end
return {#rows, count, rows}
