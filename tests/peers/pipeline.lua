-- wrk sends 16 requests at a time, each for another length.
init = function(args)
   local requests = {}
   for n = 1, 16 do
      requests[n] = wrk.format("GET", "/bytes/" .. n * 100)
   end
   batch = table.concat(requests)
end

request = function()
   return batch
end
