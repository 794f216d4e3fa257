// Unmodified go-redis (the client of YCSB's Go port) against a running server:
// go run . HOST:PORT
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

func check(ok bool, what string) {
	if !ok {
		fmt.Println("failed:", what)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol})
		check(c.Ping(ctx).Val() == "PONG", "ping")
		check(c.Set(ctx, "go", "1", 0).Err() == nil, "set")
		check(c.Get(ctx, "go").Val() == "1", "get")
		check(c.Get(ctx, "absent").Err() == redis.Nil, "absent")
		check(c.IncrBy(ctx, "go", 41).Val() == 42, "incrby")
		// YCSB stores a record as a hash of fields.
		check(c.HSet(ctx, "user1", "field0", "a", "field1", "b").Err() == nil, "hset")
		check(len(c.HGetAll(ctx, "user1").Val()) == 2, "hgetall")
		pipe := c.Pipeline()
		for i := 0; i < 1000; i++ {
			pipe.Set(ctx, fmt.Sprintf("gokey:%04d", i), i, 0)
		}
		_, err := pipe.Exec(ctx)
		check(err == nil, "pipeline")
		seen := 0
		iterator := c.Scan(ctx, 0, "gokey:*", 100).Iterator()
		for iterator.Next(ctx) {
			seen++
		}
		check(iterator.Err() == nil && seen == 1000, "scan")
		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "tx", "1", 0)
			p.Incr(ctx, "tx")
			return nil
		})
		check(err == nil && c.Get(ctx, "tx").Val() == "2", "transaction")
		check(c.Del(ctx, "go", "user1", "tx").Val() == 3, "del")
		check(c.Close() == nil, "close")
	}
	fmt.Println("go-redis: all checks passed")
}
