// Unmodified go-redis (the client of YCSB's Go port) against a running server:
// go run . HOST:PORT
//
// The server names in `INFO backend` what the place of its rows lacks. Of that each request must be
// refused, and do nothing; everything else must work.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

var checks, refusals int

func check(ok bool, what string) {
	if !ok {
		fmt.Println("failed:", what)
		os.Exit(1)
	}
	checks++
}

func refused(err error, what string) {
	check(err != nil && strings.HasPrefix(err.Error(), "UNSUPPORTED "), what+" is refused")
	refusals++
}

// severalRows asks for changes of several rows at once.
func severalRows(ctx context.Context, c *redis.Client, served bool) {
	_, both := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "gone", "1", 0)
		p.Set(ctx, "gtwo", "2", 0)
		return nil
	})
	nx, rename := c.MSetNX(ctx, "gthree", "3", "gfour", "4"), c.Rename(ctx, "tx", "gfive")
	if served {
		check(both == nil && nx.Val() && rename.Err() == nil, "several rows")
		check(c.Del(ctx, "gone", "gtwo", "gthree", "gfour").Val() == 4, "all of them")
		check(c.Rename(ctx, "gfive", "tx").Err() == nil, "rename")
		return
	}
	refused(both, "a transaction")
	refused(nx.Err(), "MSETNX")
	refused(rename.Err(), "RENAME")
	check(c.Exists(ctx, "gone", "gtwo", "gthree", "gfour", "gfive").Val() == 0, "none of them")
}

// checkpoints asks for a checkpoint.
func checkpoints(ctx context.Context, c *redis.Client, served bool) {
	err := c.Save(ctx).Err()
	if served {
		check(err == nil, "save")
	} else {
		refused(err, "SAVE")
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
		info := c.Info(ctx, "backend").Val()
		severalRows(ctx, c, !strings.Contains(info, "\nbackend_lacks_several_rows:"))
		checkpoints(ctx, c, !strings.Contains(info, "\nbackend_lacks_checkpoints:"))
		check(c.Del(ctx, "go", "user1", "tx").Val() == 3, "del")
		check(c.Close() == nil, "close")
	}
	fmt.Printf("go-redis: all %d checks passed, %d of them refusals\n", checks, refusals)
}
