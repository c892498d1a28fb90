// A back end with the Go module pusher-http-go: backend HOST:PORT APP KEY SECRET
// Orders and events are lines of JSON, as with sdk.py; python/backend.py, java/Backend.java and
// js/pusher.mjs speak the same language. The module does not terminate users.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/pusher/pusher-http-go/v5"
)

type order struct {
	ID       int               `json:"id"`
	Channel  string            `json:"channel"`
	Name     string            `json:"name"`
	Data     any               `json:"data"`
	SocketID *string           `json:"socket_id"`
	Order    string            `json:"order"`
	Channels []string          `json:"channels"`
	Batch    []pusher.Event    `json:"batch"`
	Path     string            `json:"path"`
	Params   map[string]string `json:"params"`
	User     any               `json:"user"`
	Member   *struct {
		ID   string            `json:"user_id"`
		Info map[string]string `json:"user_info"`
	} `json:"member"`
}

// The questions of the module, by the paths that they ask.
func get(client *pusher.Client, path string, params map[string]string) (any, error) {
	var prefix, info *string
	if value, ok := params["filter_by_prefix"]; ok {
		prefix = &value
	}
	if value, ok := params["info"]; ok {
		info = &value
	}
	switch parts := strings.Split(path, "/"); {
	case len(parts) == 2:
		list, err := client.Channels(pusher.ChannelsParams{FilterByPrefix: prefix, Info: info})
		if err != nil {
			return nil, err
		}
		// The module makes a number of users for each, also of channels that have none.
		names := map[string]any{}
		for name := range list.Channels {
			names[name] = struct{}{}
		}
		return map[string]any{"channels": names}, nil
	case len(parts) == 4:
		return client.GetChannelUsers(parts[2])
	default:
		told, err := client.Channel(parts[2], pusher.ChannelParams{Info: info})
		if err != nil {
			return nil, err
		}
		// Written out, since the module leaves out what is false.
		return map[string]any{
			"occupied":           told.Occupied,
			"user_count":         told.UserCount,
			"subscription_count": told.SubscriptionCount,
		}, nil
	}
}

// What an answer tells; the module reads an empty one as none.
func facts(isEmpty bool, told any) any {
	if isEmpty {
		return struct{}{}
	}
	return told
}

func carryOut(client *pusher.Client, order order) (any, error) {
	switch order.Order {
	case "trigger":
		params := pusher.TriggerParams{SocketID: order.SocketID}
		told, err := client.TriggerMultiWithParams(order.Channels, order.Name, order.Data, params)
		return facts(err != nil || told.Channels == nil, told), err
	case "batch":
		told, err := client.TriggerBatch(order.Batch)
		return facts(err != nil || told.Batch == nil, told), err
	case "note":
		return nil, client.SendToUser(order.User.(string), order.Name, order.Data)
	case "get":
		return get(client, order.Path, order.Params)
	}
	form := url.Values{"socket_id": {*order.SocketID}, "channel_name": {order.Channel}}
	asked := []byte(form.Encode())
	var signed json.RawMessage
	var err error
	switch member := order.Member; {
	case order.Order == "authenticate":
		signed, err = client.AuthenticateUser(asked, order.User.(map[string]any))
	case member != nil:
		data := pusher.MemberData{UserID: member.ID, UserInfo: member.Info}
		signed, err = client.AuthorizePresenceChannel(asked, data)
	default:
		signed, err = client.AuthorizePrivateChannel(asked)
	}
	return signed, err
}

func main() {
	client := &pusher.Client{
		Host:                      os.Args[1],
		AppID:                     os.Args[2],
		Key:                       os.Args[3],
		Secret:                    os.Args[4],
		EncryptionMasterKeyBase64: base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var asked order
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		told := map[string]any{"id": asked.ID, "event": "done"}
		answer, err := carryOut(client, asked)
		told["body"], told["answer"] = answer, answer
		if err != nil {
			told["event"], told["body"] = "failed", err.Error()
		}
		line, err := json.Marshal(told)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}
